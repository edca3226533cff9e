"""The text report: Prospect's sections under Prospect's titles, one file a section.

Nothing is imported here: a table of counts has no use for the whole report.
"""
