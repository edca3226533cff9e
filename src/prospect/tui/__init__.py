"""The terminal screen of ``prospect top``. The only room that imports textual."""
