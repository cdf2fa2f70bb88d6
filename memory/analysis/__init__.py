"""Analysis of single texts by small trained heads."""
