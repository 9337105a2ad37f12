"""Pages in HTML, one file each: templates, styles and scripts of our own, and Vega, which draws the charts.

A page is made of a document of the command line, so it says what `--json` says. It loads nothing, and its content
security policy lets only the scripts run that it was written with.
"""
