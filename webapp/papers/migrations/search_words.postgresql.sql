translate(papers_words({}::text), '<>/@.-_', '       ')
