"""What people and programs can ask of Mainspring: one method per verb, over a store or over HTTP.

`faces` says what each verb does; `documents` is what goes in and comes out. The modules beside them do the work over a store,
`client` does it over HTTP by asking a server, whose `api` calls the same modules. So an application, a command and a request
mean the same thing wherever they are spoken.
"""
