"""What puts one process together: settings, connections, embedded servers."""
