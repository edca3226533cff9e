"""Call stacks with weights, as flame graphs and stack formats show them."""
