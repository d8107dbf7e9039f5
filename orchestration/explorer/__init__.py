"""The explorer: a local web page on budgets, plans, published tables and the audit, which reads only public data.

`launcher` starts it, `process` confines it (`resources.confinement`) and serves `app`; `reading` gets the data, and
each page is a module. Streamlit makes the page from these modules, Altair its charts.
"""
