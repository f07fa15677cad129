"""The demo: real catalogs, laid out as a survey would deliver them."""
