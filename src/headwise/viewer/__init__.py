"""Looking at heads: one page that opens offline."""

from headwise.viewer.page import Layout, layout, page, pieces, replacing

__all__ = ["Layout", "layout", "page", "pieces", "replacing"]
