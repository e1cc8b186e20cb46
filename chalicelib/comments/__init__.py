"""Comments on products, with ratings in many languages and their statistics."""
