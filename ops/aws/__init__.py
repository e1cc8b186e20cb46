"""Provision, deploy and test a stage on AWS."""
