"""The web page: a cluster to look at, now and at any moment since the page began.

    objects  →  Board (rows, changes)  →  frames over server-sent events  →  the browser

The server side keeps one row of numbers an object and tells changes; everything that is drawn is
made in the browser by the modules in `static/`. Nothing here changes a cluster.
"""
