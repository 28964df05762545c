"""The paper's comparisons as data: which campaigns answer which table, and what the paper reports there."""
