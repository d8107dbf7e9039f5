"""The Streamlit script of the explorer: its pages, below the name of the deployment. Only `process` runs it, and no
module imports it."""

import traceback
from contextlib import ExitStack

import streamlit as st

from resources.faults import conceal

st.set_page_config(page_title="Stirred: explorer", layout="wide", initial_sidebar_state="auto")
# Streamlit leaves a sixth of a screen free above a page, and space between the columns of tables, which a phone then
# cuts. Table cells break lines beside free space. In a window at twice the zoom, the two columns are too narrow.
st.html(
    "<style>.stMainBlockContainer { padding: 4rem 2rem } .stHeading h1 { padding: 0 0 .5rem; font-size: 2rem } "
    ".stHeading h2 { font-size: 1.5rem } .stTable td [data-testid=stMarkdownContainer] { max-width: 40rem } "
    "@media (max-width: 640px) { .stMainBlockContainer { padding: 4rem 1rem } "
    "[data-testid=stExpanderDetails] { padding: .5rem } .stTable :is(td, th) { padding: .25rem !important } } "
    "@media (max-width: 800px) { [data-testid=stHorizontalBlock] { flex-wrap: wrap } "
    "[data-testid=stColumn] { min-width: 100% } } "
    # Streamlit marks the focus on a navigation link, a button or a radio button with a faint shade alone.
    ":is([data-testid=stTopNavLink], button):focus-visible, .stRadio label:has(:focus-visible) "
    "{ outline: 2px solid !important; outline-offset: 1px } "
    # A dark page is printed light. No chart is cut, and print has no color to distinguish the chosen option.
    "@media print { html, body, .stApp, .stApp * { color: #000 !important; background-color: #fff !important } "
    ".stApp svg text { fill: #000 !important } .stApp svg .role-axis-grid line { stroke: #ddd !important } "
    ".stTable, .stTable * { overflow: visible !important; border-color: #ccc !important } "
    ".stRadio label:has(input:checked) p { font-weight: 700; text-decoration: underline } "
    ".stVegaLiteChart, tr { break-inside: avoid } }</style>"
)
try:
    left, right = st.columns([5, 1])
    header = left.empty()
    with ExitStack() as stack:
        with right:
            stack.enter_context(st.spinner("Loading …"))
        # Imported here, so that the terminal also shows a failed import.
        from orchestration.explorer import audit, budgets, laboratory, plan, tables
        from orchestration.explorer.display import OPENED, show_header

        show_header(header)
        page = st.navigation(
            [
                st.Page(budgets.show, title="Budgets", default=True),
                st.Page(plan.show, title="Plan", url_path="plan"),
                st.Page(tables.show, title="Tables", url_path="tables"),
                st.Page(laboratory.show, title="Laboratory", url_path="laboratory"),
                st.Page(audit.show, title="Audit", url_path="audit"),
            ],
            position="top",
        )
        page.run()
        # Repeated here, because only now the page's address names the release that is shown.
        show_header(header)
    st.session_state[OPENED] = True
except Exception as error:
    traceback.print_exception(conceal(error))
    st.error(f"The page cannot be shown ({type(error).__name__}). The explorer's terminal shows the reason.")
