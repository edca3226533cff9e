"""The figures of the flat report, a module a section."""
