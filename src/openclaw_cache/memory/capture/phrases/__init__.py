"""How people state things, order and doubt, in English and Chinese: lists of regular expressions, one a line."""
