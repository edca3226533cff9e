"""The JSON report: the same figures as the text report, for programs.

Nothing is imported here: a document of counts has no use for the whole report.
"""
