"""The explorer's server: Streamlit's, which answers to the names of this machine, and to no other name.

Streamlit itself checks the name only of who asks for the connection of a page. Another site's name can be made to lead
to this machine, whose pages could then read what is answered to any other request. `process` runs it.
"""

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from streamlit.starlette import App

from orchestration.explorer.process import APP
from orchestration.explorer.settings import read_settings

app = App(APP, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=read_settings().hosts, www_redirect=False)])
