"""Regions on the sky: each is covered with pixels, and says exactly which positions lie in it."""

from hipslake.sphere.regions.box import Box
from hipslake.sphere.regions.cone import Cone
from hipslake.sphere.regions.pixel_regions import Moc, PixelList
from hipslake.sphere.regions.polygon import Polygon
from hipslake.sphere.regions.region import Cover, Region
from hipslake.sphere.regions.region_text import parse_region

__all__ = ["Box", "Cone", "Cover", "Moc", "PixelList", "Polygon", "Region", "parse_region"]
