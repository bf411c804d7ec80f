package dev.zkensemble.tests;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A relay in front of a server on loopback, so that a case can cut a client's connection and mend it. */
final class Tap implements AutoCloseable {
    private final String host;
    private final int port;
    private final ServerSocket listener;
    private final List<Socket> sockets = new ArrayList<>();
    private boolean cut;

    Tap(String server) throws IOException {
        String first = server.split(",")[0];
        host = first.substring(0, first.lastIndexOf(':'));
        port = Integer.parseInt(first.substring(first.lastIndexOf(':') + 1));
        listener = new ServerSocket(0, 16, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    int port() {
        return listener.getLocalPort();
    }

    private static void daemon(Runnable body) {
        Thread thread = new Thread(body, "tap");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket client = listener.accept();
                if (keep(client)) {
                    Socket server = new Socket(host, port);
                    if (keep(server)) {
                        daemon(() -> copy(client, server));
                        daemon(() -> copy(server, client));
                    }
                }
            }
        } catch (IOException e) {
            // closed: the case is over
        }
    }

    private synchronized boolean keep(Socket socket) throws IOException {
        if (cut) {
            socket.close();
            return false;
        }
        sockets.add(socket);
        return true;
    }

    private static void copy(Socket from, Socket to) {
        byte[] buffer = new byte[8192];
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                out.write(buffer, 0, n);
            }
        } catch (IOException e) {
            // cut, or closed by one side: both are closed
        }
    }

    /** Breaks every connection, and refuses new ones until {@link #mend}. */
    synchronized void cut() throws IOException {
        cut = true;
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    synchronized void mend() {
        cut = false;
    }

    @Override
    public void close() throws IOException {
        cut();
        listener.close();
    }
}
