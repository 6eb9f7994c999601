# SPDX-License-Identifier: Apache-2.0
"""A TCP relay on loopback that can hold everything back, as a network does that has failed."""
import selectors
import socket
import threading


class StallingProxy:
    def __init__(self, port, to_port):
        self.to_port = to_port
        self.flows = threading.Event()
        self.flows.set()
        self.listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(client,), daemon=True).start()

    def relay(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.to_port))
        except OSError:
            client.close()
            return
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            try:
                while True:
                    for key, _ in ready.select():
                        self.flows.wait()
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        key.data.sendall(data)
            except OSError:
                pass

    def close(self):
        self.flows.set()
        self.listener.close()
