"""The state of the machine as recording begins: processes, mappings, files of JITs."""
