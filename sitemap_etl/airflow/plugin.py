"""The plugin: a page of all sites in the navigation, a tab of each DAG and of each run."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from sitemap_etl.airflow import pools
from sitemap_etl.airflow.compat import AirflowPlugin
from sitemap_etl.airflow.links import PREFIX, REPORT_TAB

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send


@cache
def _pages() -> FastAPI:
    from sitemap_etl.airflow.pages import make_pages

    return make_pages()


async def _serve(scope: Scope, receive: Receive, send: Send) -> None:
    """The pages as an ASGI application, which is made when the first is asked for: tasks load plugins as well."""
    try:
        pages = _pages()
    except ModuleNotFoundError as error:  # Airflow's environment has the package alone (`airflow.python`)
        said = f"sitemap_etl shows no pages here, because this environment of Airflow lacks {error.name}.".encode()
        await send({"type": "http.response.start", "status": 501, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": said})
        return
    await pages(scope, receive, send)


class SitemapPlugin(AirflowPlugin):  # type: ignore[misc] # Airflow's types are not followed
    """What Airflow finds by the entry point. Addresses are relative, so that Airflow may lie below a path."""

    name = "sitemap_etl"
    listeners: ClassVar[list[Any]] = [pools]
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [{"app": _serve, "url_prefix": f"/{PREFIX}", "name": "sitemap_etl"}]
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Sitemaps",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "sitemaps",
        },
        {
            "name": "Sitemap",
            "href": f"{PREFIX}/{{DAG_ID}}",
            "destination": "dag",
            "url_route": "sitemap",
        },
        {
            "name": "Sitemap report",
            "href": f"{PREFIX}/{{DAG_ID}}/runs/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": REPORT_TAB,
        },
    ]
