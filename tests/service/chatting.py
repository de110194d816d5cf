"""Functions that say their secret, in a module that a process of the pool imports quickly."""

from base64 import b64encode

from mainspring.execute.context import Context


def chat(context: Context) -> None:
    context.log(f"token: {context.secret('TOKEN')}")
    context.log("basic " + b64encode(f"me:{context.secret('TOKEN')}".encode()).decode())


async def chat_async(context: Context) -> None:
    chat(context)
