"""The Streamlit script of the explorer: its pages. `process` runs it; nothing else imports it."""

import traceback

import streamlit as st

from orchestration.explorer import audit, budgets, plan, tables

st.set_page_config(page_title="Stirred: explorer", layout="wide", initial_sidebar_state="auto")
page = st.navigation(
    [
        st.Page(budgets.show, title="Budgets", url_path="budgets", default=True),
        st.Page(plan.show, title="Plan", url_path="plan"),
        st.Page(tables.show, title="Tables", url_path="tables"),
        st.Page(audit.show, title="Audit", url_path="audit"),
    ],
    position="top",
)
try:
    page.run()
except Exception as error:
    traceback.print_exc()
    st.error(f"The page could not be made ({type(error).__name__}). The terminal that runs the explorer says why.")
