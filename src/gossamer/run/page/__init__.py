"""`gossamer page`: a page on this machine that leads a data owner through the commands. It needs the extra `page`."""
