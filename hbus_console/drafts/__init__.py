"""What people and programs set of a thing: said once, on the fields of its draft.

A draft is a plain dataclass; each field that can be set carries what is true of it (:mod:`.setting`) in its annotation.
:class:`.settings.Settings` reads them, and from it derive checks, audit snapshots, forms and pages, and the bodies,
answers and OpenAPI description of the API (:mod:`hbus_console.api.drafts`). Only the model stands beside it, because
Django's migrations read it; :func:`.agreement.disagreements` says where the two differ.
"""
