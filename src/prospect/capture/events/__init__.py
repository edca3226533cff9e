"""What is sampled: text typed by a person, or clocks → events opened on each CPU."""
