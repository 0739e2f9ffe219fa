"""Airflow plugin: a page of all sites in the navigation, and tabs of DAGs and runs."""

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
    """Serve the pages. The application is created on the first request, because tasks load plugins too."""
    try:
        pages = _pages()
    except ModuleNotFoundError as error:  # with `airflow.python`, Airflow's environment lacks libraries
        said = f"sitemap_etl shows no pages here, because this environment of Airflow lacks {error.name}.".encode()
        await send({"type": "http.response.start", "status": 501, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": said})
        return
    await pages(scope, receive, send)


class SitemapPlugin(AirflowPlugin):  # type: ignore[misc] # Airflow's types are not followed
    """Plugin that Airflow loads by its entry point. Addresses are relative, so Airflow can be served below a path."""

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
