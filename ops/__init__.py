"""Operate Hubbub: provision, deploy, import, check and correct."""
