"""Guests: visitors who sign in without an identity provider."""
