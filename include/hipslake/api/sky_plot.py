"""The density of rows on the sky, drawn into axes of matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hipslake.api.rows_on_sky import SkyRows, rows_per_pixel
from hipslake.catalog.hats.skymap import forward, inverse
from hipslake.sphere.pixels import order29

if TYPE_CHECKING:
    from hipslake.catalog.catalog_reader import CatalogReader

_ON_A_SPHERE = ("mollweide", "aitoff", "hammer", "lambert")
_WIDTH = 1600  # pixels of the painted map
_SMALL = (7.0, 3.9)  # inches


def plot_density(
    catalog: CatalogReader, axes: Any, order: int | None, options: dict[str, Any], *, colour_bar: bool = True
) -> Any:
    """Draw the map; as `Catalog.plot`."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    counted = rows_per_pixel(catalog, order)
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(figsize=(10, 5.6))[1]
    density = counted.density
    ends = (density.min(), density.max()) if len(density) else (1.0, 1.0)
    wide = ends if ends[0] < ends[1] else (ends[0] / 2, ends[1] * 2)
    drawn = {"cmap": "magma", **options}
    if not {"norm", "vmin", "vmax"} & set(drawn):
        drawn["norm"] = LogNorm(*wide)
    if axes.name in _ON_A_SPHERE:
        shown = _on_a_sphere(axes, counted, density, drawn)
    else:
        shown = _on_a_plane(axes, counted, density, drawn)
    axes.set_title(f"{catalog.name}, version {catalog.version}: {catalog.metadata.total_rows:,} rows")
    if colour_bar:
        bar = axes.figure.colorbar(
            shown, ax=axes, label="rows per square degree", orientation="horizontal", shrink=0.6, pad=0.06
        )
        if isinstance(shown.norm, LogNorm):
            low, high = shown.get_clim()
            decades = float(np.log10(high / low))
            bar.ax.xaxis.set_major_locator(LogLocator(subs=(1,) if decades > 3 else (1, 2, 5)))
            bar.ax.xaxis.set_minor_locator(NullLocator())
            bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    return axes


def density_png(catalog: CatalogReader) -> bytes:
    """A small map as PNG, without any state of pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SMALL, dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    plot_density(catalog, figure.add_subplot(), None, {})
    sink = io.BytesIO()
    figure.savefig(sink, format="png", metadata={"Software": None})
    return sink.getvalue()


def _on_a_plane(axes: Any, counted: SkyRows, density: NDArray[np.float64], options: dict[str, Any]) -> Any:
    """The whole sky as a Mollweide ellipse of half axes 2 and 1, right ascension growing to the left."""
    from matplotlib.patches import Ellipse

    height = _WIDTH // 2
    across = (np.arange(_WIDTH) + 0.5) / _WIDTH * 4.0 - 2.0
    up = 1.0 - (np.arange(height) + 0.5) / height * 2.0
    ra, dec = inverse(across, up[:, None])
    image = _looked_up(counted, density, ra, dec)
    shown = axes.imshow(image, extent=(-2, 2, -1, 1), interpolation="nearest", zorder=1, **options)
    rim = Ellipse((0, 0), 4, 2, fill=False, edgecolor="0.5", linewidth=1.0, zorder=3)
    axes.add_patch(rim)
    shown.set_clip_path(rim)
    thin: dict[str, Any] = {"color": "0.5", "alpha": 0.4, "linewidth": 0.5, "zorder": 2}
    along, upward = np.linspace(-179.999, 179.999, 181), np.linspace(-90, 90, 91)
    for parallel in range(-60, 61, 30):
        axes.plot(*forward(along, np.full(along.shape, parallel)), **thin)
        x, y = forward(-179.999, parallel)
        axes.text(float(x) + 0.03, float(y), f"{parallel:+d}°", fontsize=7, va="center", color="0.4")
    for meridian in range(-150, 151, 30):
        axes.plot(*forward(np.full(upward.shape, meridian), upward), **thin)
        if meridian % 60 == 0:
            x, _ = forward(meridian, 0)
            axes.text(float(x), -0.04, f"{meridian % 360}°", fontsize=7, ha="center", color="0.4", zorder=4)
    axes.set(xlim=(-2.03, 2.2), ylim=(-1.03, 1.03), aspect="equal")
    axes.axis("off")
    return shown


def _on_a_sphere(axes: Any, counted: SkyRows, density: NDArray[np.float64], options: dict[str, Any]) -> Any:
    """The map in axes of one of matplotlib's own projections, which take radians and grow to the right."""
    width = _WIDTH // 2
    lon = np.linspace(-180, 180, width + 1)
    lat = np.linspace(-90, 90, width // 2 + 1)
    middle_lon, middle_lat = (lon[1:] + lon[:-1]) / 2, (lat[1:] + lat[:-1]) / 2
    ra, dec = np.broadcast_arrays((-middle_lon) % 360, middle_lat[:, None])
    image = _looked_up(counted, density, ra, dec)
    shown = axes.pcolormesh(
        np.radians(lon), np.radians(lat), image, shading="flat", rasterized=True, **options
    )
    labels = np.arange(-150, 151, 30)
    axes.set_xticks(np.radians(labels), [f"{-each % 360}°" for each in labels.tolist()], fontsize=7)
    axes.grid(alpha=0.3)
    return shown


def _looked_up(
    counted: SkyRows, density: NDArray[np.float64], ra: NDArray[np.float64], dec: NDArray[np.float64]
) -> np.ma.MaskedArray[Any, Any]:
    """The density at positions; masked where there are no rows, and off the sky (NaN)."""
    on_sky = ~np.isnan(ra)
    at = counted.pixels.find(order29(ra[on_sky], dec[on_sky]))
    image = np.zeros(ra.shape)
    if len(density):
        image[on_sky] = np.where(at < 0, 0.0, density[at])
    return np.ma.masked_equal(image, 0.0)
