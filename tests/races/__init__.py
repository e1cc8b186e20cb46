"""Scripts that run the races of the product over its real interfaces."""
