// Search runs in a worker, and browsers give none to a page that was opened from disk. There an invisible frame does the
// worker's job. (The theme looks for the name IFrameWorker, and would otherwise load such a script from elsewhere.)
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise((done) => { this.inside.whenReady = done; });
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => urls.reduce((before, src) => before.then(() => this.load(src)), Promise.resolve());
      this.load(url).then(this.inside.whenReady);
    }
    load(url) {
      return new Promise((done) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.addEventListener("load", done);
        this.inside.document.body.appendChild(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
