"""The experiments of the MTA paper (Villalba, Berral and Carrera, TPDS 2019), rerun."""
