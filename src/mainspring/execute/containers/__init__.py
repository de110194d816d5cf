"""Programs in containers, through what the machine has: podman, docker, crun or runc.

Used by the type `container`; sees neither jobs nor contexts.

    plan        what shall run, in what, with which limits: one value for all of them
    engines     podman and docker: the command lines
    keeping     secrets, as podman keeps them
    bundle      crun and runc: the description that they read, and the command lines
    ability     which of them this machine really has: tried out once
    run         one container from its start to its end
    leftovers   names, and what workers that were killed have left behind

Guarantees: every container has a name, and `remove` takes it away whatever state it is in.
"""
