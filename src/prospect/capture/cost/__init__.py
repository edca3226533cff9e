"""What a sample and a probe cost on this machine, measured."""
