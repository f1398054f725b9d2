"""One file per `scrapy` command; the name of the file is the name of the command."""
