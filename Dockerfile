# The command as an image: slim, without root, with a health check of the nightly job. docs/how-to/docker.md says how to use it.
# This one has a C compiler, with which the build compiles the kernels.
FROM python:3.11 AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py CHANGELOG.md LICENSE constraints.txt ./
COPY sitemap_etl sitemap_etl
# The versions that the tests ran with; of the extras, those that need no scheduler.
RUN sed -n -E 's/^([a-zA-Z0-9][^\\]*) \\$/\1/p' constraints.txt > pins.txt \
    && python -m venv /opt/sitemap-etl \
    && /opt/sitemap-etl/bin/pip install --no-cache-dir --disable-pip-version-check -c pins.txt ".[mysql,google,pandas]" \
    && /opt/sitemap-etl/bin/python -c "from sitemap_etl import kernels; assert kernels.compiled"

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home --home-dir /srv/sitemaps sitemaps
COPY --from=build /opt/sitemap-etl /opt/sitemap-etl
COPY docker/nightly /usr/local/bin/
ENV PATH=/opt/sitemap-etl/bin:$PATH LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /srv/sitemaps
# The sites of the folder, by what the state remembers of their last runs.
HEALTHCHECK --interval=15m --timeout=2m --start-period=15m --retries=1 CMD ["sitemap-etl", "status", "."]
ENTRYPOINT ["sitemap-etl"]
CMD ["--help"]
