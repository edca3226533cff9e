"""How far each time can be trusted: `±`, rhythm with a clock, rows that are not told apart."""
