"""The tables of a paper: from the HTML that LaTeXML makes to rows that can be read."""
