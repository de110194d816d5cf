"""Jobs without functions: programs of this machine, in a sandbox where there is one. `mainspring dev examples.scripts:app` runs it.

`app.script` is there in every application; so are `app.http`, `app.sql` and `app.container`. A worker runs those that it is told to
(`mainspring worker examples.scripts:app --types script`); `mainspring dev` runs all that the machine has.
"""

from mainspring import App

app = App()

# By a cron rule: how full the disks are, every ten seconds.
app.schedule("*/10 * * * * *", name="disks", arguments={"command": ["df", "-h", "/tmp"]})(app.script)


@app.on_start
async def count_words() -> None:
    """Files go in, what the program writes is the job's log, and what it leaves can be kept (`outputs=`)."""
    await app.script.options(timeout="1m").submit(
        ["sh", "-c", "wc -w < poem.txt"], files={"poem.txt": "I wandered lonely as a cloud\n"}
    )
