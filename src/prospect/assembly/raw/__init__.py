"""Raw data of samples: what plug-ins that know an event's PMU make of it."""
