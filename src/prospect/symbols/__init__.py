"""(object, address) → function: images, kernel symbols, JIT maps; why there is no name."""
