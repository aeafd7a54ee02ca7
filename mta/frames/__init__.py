"""Frames: the rules that say which elements a window holds."""
