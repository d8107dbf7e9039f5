"""The Streamlit script of the explorer: its pages. `process` runs it; nothing else imports it."""

import traceback

import streamlit as st

from resources.faults import conceal

st.set_page_config(page_title="Stirred: explorer", layout="wide", initial_sidebar_state="auto")
try:
    # Here, so that a failure of an import is in the terminal too.
    from orchestration.explorer import audit, budgets, plan, tables
    from orchestration.explorer.display import OPENED

    page = st.navigation(
        [
            st.Page(budgets.show, title="Budgets", url_path="budgets", default=True),
            st.Page(plan.show, title="Plan", url_path="plan"),
            st.Page(tables.show, title="Tables", url_path="tables"),
            st.Page(audit.show, title="Audit", url_path="audit"),
        ],
        position="top",
    )
    page.run()
    st.session_state[OPENED] = True
except Exception as error:
    traceback.print_exception(conceal(error))
    st.error(f"The page could not be made ({type(error).__name__}). The terminal that runs the explorer says why.")
