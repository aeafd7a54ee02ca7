"""The experiments of the DABA paper (Tangwongsan, Hirzel and Schneider, DEBS 2017)."""
