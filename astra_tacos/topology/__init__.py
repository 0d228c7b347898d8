"""Networks as arrays of directed links; `BUILDING_BLOCKS` in `composition` lists what a dimension can be."""
