"""The experiments of the Reactive Aggregator paper (Tangwongsan, Hirzel, Schneider and Wu, PVLDB 2015)."""
