// Search in pages that are opened as files, for which browsers allow no workers: the script runs in a hidden
// frame instead. Takes the place of the package iframe-worker, which the plugin "offline" loads from a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = this.inside.document.createElement("script")
      this.loaded = new Promise(done => { script.onload = done })
      script.src = url
      this.inside.document.body.append(script)
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
