"""Stands between hosts, with an address of this network namespace, as a router, a load balancer or a proxy may.

usage: middle.py relay ADDRESS THERE PORT...   passes connections on to the same port of THERE
       middle.py drop ADDRESS PORT...          accepts connections and closes them
       middle.py mute ADDRESS PORT...          accepts connections and sends nothing"""

from __future__ import annotations

import select
import socket
import sys
import threading


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
        try:
            end.shutdown(how)
        except OSError:
            pass


def relay(client: socket.socket, there: tuple[str, int]) -> None:
    try:
        server = socket.create_connection(there, 5)
        server.settimeout(None)
    except OSError:
        client.close()
        return
    for pair in ((client, server), (server, client)):
        threading.Thread(target=pass_on, args=pair, daemon=True).start()


def main() -> None:
    kind, address, *rest = sys.argv[1:]
    there = rest.pop(0) if kind == "relay" else ""
    listeners = [socket.create_server((address, int(port)), backlog=64) for port in rest]
    kept = []
    print("ready", flush=True)
    while True:
        for listener in select.select(listeners, [], [])[0]:
            client = listener.accept()[0]
            if kind == "relay":
                relay(client, (there, listener.getsockname()[1]))
            elif kind == "mute":
                kept.append(client)
            else:
                client.close()


main()
