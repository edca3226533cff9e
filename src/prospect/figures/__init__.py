"""The figures of every report, each computed once from a profile; renderers lay them out."""
