"""The plugin that Airflow finds by the entry point `airflow.plugins` of the installed package.

Every process of Airflow loads it, tasks too, so it imports little.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from hipslake_airflow import run_notes
from hipslake_airflow.links.page import CatalogsPageLink
from hipslake_airflow.night_timetable import NightTimetable

PREFIX = "/hipslake"
# Airflow may be served below a path, and its UI puts views into frames by their address.
PAGE = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/") + PREFIX


@cache
def _catalogs_app() -> Any:
    from hipslake_airflow.web.app import make_app

    return make_app("${HIPSLAKE_WAREHOUSE}")


class CatalogsApp:
    """The catalogs page, made when it is first asked for: every task loads plugins, and serves none."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as ASGI has it."""
        await _catalogs_app()(scope, receive, send)


def _icon(colour: str) -> str:
    """A sky with its meridians and parallels, as an address that holds the drawing itself."""
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="{colour}" '
        'stroke-width="1.7"><ellipse cx="12" cy="12" rx="10.5" ry="6.5"/>'
        '<ellipse cx="12" cy="12" rx="4.5" ry="6.5"/><path d="M1.5 12h21M12 5.5v13"/></svg>'
    )
    return f"data:image/svg+xml,{quote(drawing)}"


class HipslakePlugin(AirflowPlugin):
    """Makes hipslake known to Airflow."""

    name = "hipslake"
    fastapi_apps = [{"app": CatalogsApp(), "url_prefix": PREFIX, "name": "hipslake catalogs"}]  # noqa: RUF012
    timetables = [NightTimetable]  # noqa: RUF012
    listeners = [run_notes]  # noqa: RUF012
    global_operator_extra_links = [CatalogsPageLink()]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "Catalogs",
            "href": f"{PAGE}/catalogs",
            "destination": "nav",
            "nav_top_level": True,  # beside Dags and Assets, and not within a menu
            "icon": _icon("#6585b8"),
            "icon_dark_mode": _icon("#d4dbe5"),
            "url_route": "catalogs",
        },
        {
            "name": "Catalog",
            "href": f"{PAGE}/catalogs?dag={{DAG_ID}}",
            "destination": "dag",
            "url_route": "catalog",
        },
    ]
