// SPDX-License-Identifier: GPL-2.0-or-later
//
// firefox.js: a page in headless Firefox, driven over Marionette; no package needed but node.
'use strict';
const { spawn } = require('child_process');
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');

// What WebDriver calls the keys that are no characters.
const KEYS = { Tab: '\ue004', Enter: '\ue006', Control: '\ue009', Escape: '\ue00c',
	ArrowLeft: '\ue012', ArrowUp: '\ue013', ArrowRight: '\ue014', ArrowDown: '\ue015' };

// Runs beside the page with the rights of the browser: the page's policy forbids eval(), and only a debugger sees
// its let and const. Takes what was said on the console, too, from when the page began; of the browser's own
// words there, those that are errors, as its policy's are.
const BESIDE = `
	const [source, done] = arguments, errors = [], { classes, interfaces } = Components;
	const said = classes['@mozilla.org/consoleAPI-storage;1'].getService(interfaces.nsIConsoleAPIStorage);
	const tell = (result) => {
		for (const m of Services.console.getMessageArray()) {
			if (m instanceof interfaces.nsIScriptError && m.innerWindowID && !(m.flags & 9)) errors.push(m.toString());
		}
		Services.console.reset();
		for (const m of said.getEvents()) errors.push(m.level + ': ' + Array.from(m.arguments, String).join(' '));
		said.clearEvents();
		done({ errors, pid: Services.appinfo.processID, ...result });
	};
	ChromeUtils.importESModule('resource://gre/modules/jsdebugger.sys.mjs').addDebuggerToGlobal(globalThis);
	const d = new Debugger(), page = d.addDebuggee(window.wrappedJSObject || window);
	const text = 'Promise.resolve(kept).then((v) => JSON.stringify([v]))';
	const fail = (e) => tell({ thrown: String(e && e.message || e) });
	const run = (r) => {
		if (!r) throw new Error('ended');
		if ('throw' in r) throw r.throw && r.throw.unsafeDereference ? r.throw.unsafeDereference() : r.throw;
		return r.return;
	};
	try {
		const kept = run(page.executeInGlobal(source));
		const json = run(page.executeInGlobalWithBindings(text, { kept })).unsafeDereference();
		d.removeAllDebuggees();
		json.then((json) => tell({ json }), fail);
	} catch (e) { d.removeAllDebuggees(); fail(e); }`;

function freePort() {
	return new Promise((resolve, reject) => {
		const s = net.createServer();
		s.on('error', reject);
		s.listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => resolve(port)); });
	});
}

class Page {
	static async open(url, { width = 1400, height = 800, dark = false } = {}) {
		const p = new Page(), port = await freePort();
		p.profile = fs.mkdtempSync(path.join(os.tmpdir(), 'kvmft-html-'));
		p.errors = [];
		p.waiting = new Map();
		p.id = 0;
		p.rest = Buffer.alloc(0);
		const prefs = {
			'marionette.port': port,
			// Else Marionette sets what it holds to be good for tests, and takes limits away that a reader's page has.
			'remote.prefs.recommended': false,
			'focusmanager.testmode': true, // it has the focus, whatever window has it
			'layout.css.prefers-color-scheme.content-override': dark ? 0 : 1,
			'layout.css.devPixelsPerPx': '1.0',
			'privacy.reduceTimerPrecision': false, // frames are timed
			'browser.startup.page': 0,
			'browser.startup.homepage_override.mstone': 'ignore',
			'browser.shell.checkDefaultBrowser': false,
			'browser.aboutwelcome.enabled': false,
			'termsofuse.bypassNotification': true,
			'datareporting.policy.dataSubmissionEnabled': false,
			'datareporting.healthreport.uploadEnabled': false,
			'toolkit.telemetry.enabled': false,
			'app.normandy.enabled': false,
			'app.update.enabled': false,
			'extensions.update.enabled': false,
			'browser.safebrowsing.malware.enabled': false,
			'browser.safebrowsing.phishing.enabled': false,
			'network.captive-portal-service.enabled': false,
			'network.connectivity-service.enabled': false,
			// Whatever asks for the network still is refused it: nobody listens there.
			'network.proxy.type': 1,
			'network.proxy.socks': '127.0.0.1',
			'network.proxy.socks_port': 9,
			'network.proxy.socks_remote_dns': true,
		};
		const lines = Object.entries(prefs).map(([k, v]) => `user_pref("${k}", ${JSON.stringify(v)});\n`);
		fs.writeFileSync(path.join(p.profile, 'user.js'), lines.join(''));
		const program = process.env.FIREFOX || 'firefox-esr';
		const screen = { MOZ_HEADLESS_WIDTH: String(width), MOZ_HEADLESS_HEIGHT: String(height) };
		p.child = spawn(program, ['--headless', '--marionette', '--profile', p.profile, '--no-remote', '--new-instance'],
			{ stdio: 'ignore', env: { ...process.env, ...screen, MOZ_CRASHREPORTER_DISABLE: '1' } });
		p.child.on('error', (e) => { console.error(`firefox: ${e.message}`); process.exit(1); });
		// It outlives nothing: neither a failure nor who stops this.
		p.gone = () => {
			p.child.kill('SIGKILL');
			fs.rmSync(p.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
		};
		p.stop = () => process.exit(1);
		process.on('exit', p.gone).on('SIGTERM', p.stop).on('SIGINT', p.stop);
		p.timer = setTimeout(() => { console.error('firefox: no end within 90 s'); process.exit(1); }, 90000);
		await p.connect(port);
		await p.send('WebDriver:NewSession', { capabilities: { alwaysMatch: { pageLoadStrategy: 'eager' } } });
		await p.size(width, height);
		await p.go(url);
		return p;
	}

	async connect(port) {
		for (;;) {
			const s = net.connect(port, '127.0.0.1');
			if (await new Promise((r) => { s.on('connect', () => r(true)); s.on('error', () => r(false)); })) {
				this.socket = s;
				break;
			}
			if (this.child.exitCode !== null) throw new Error(`Firefox ended with ${this.child.exitCode}`);
			await new Promise((r) => setTimeout(r, 50));
		}
		this.socket.on('data', (d) => this.receive(d));
		this.socket.on('close', () => { for (const w of this.waiting.values()) w.reject(new Error('Firefox is gone')); });
	}

	// LENGTH:JSON, of which the first says who it is, and any other is [1, id, error, result].
	receive(data) {
		this.rest = Buffer.concat([this.rest, data]);
		for (;;) {
			const colon = this.rest.indexOf(':'), end = colon + 1 + Number(this.rest.subarray(0, colon));
			if (colon < 0 || this.rest.length < end) return;
			const m = JSON.parse(this.rest.subarray(colon + 1, end));
			this.rest = this.rest.subarray(end);
			if (!Array.isArray(m)) continue;
			const w = this.waiting.get(m[1]);
			this.waiting.delete(m[1]);
			if (m[2]) w.reject(new Error(`${m[2].error}: ${m[2].message}`));
			else w.resolve(m[3] && 'value' in m[3] ? m[3].value : m[3]);
		}
	}

	send(command, params = {}) {
		const id = ++this.id, text = Buffer.from(JSON.stringify([0, id, command, params]));
		this.socket.write(Buffer.concat([Buffer.from(`${text.length}:`), text]));
		return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
	}

	async go(url) {
		const begin = Date.now();
		await this.send('WebDriver:Navigate', { url });
		while (!(await this.value('document.documentElement?.dataset.ready === "1"'))) {
			if (this.errors.length || Date.now() - begin > 30000) break;
			await new Promise((r) => setTimeout(r, 20));
		}
		this.opened = Date.now() - begin;
	}

	// The window has more than the page: how much is known when there is one.
	async size(width, height) {
		let want = { width, height };
		for (let k = 0; k < 3; k++) {
			await this.send('WebDriver:SetWindowRect', want);
			const [w, h] = await this.value('[innerWidth, innerHeight]');
			if (w === width && h === height) break;
			want = { width: want.width + width - w, height: want.height + height - h };
		}
	}

	// Away from the page, and with it what was wrong there; about:blank would be in another process.
	async blank() {
		await this.frame();
		const file = path.join(this.profile, 'blank.html');
		fs.writeFileSync(file, '<!DOCTYPE html>');
		await this.send('WebDriver:Navigate', { url: 'file://' + file });
	}

	// ms that the page's thread ran on a CPU.
	async busy() {
		await this.value('0');
		return Number(fs.readFileSync(`/proc/${this.pid}/task/${this.pid}/schedstat`, 'latin1').split(' ')[0]) / 1e6;
	}

	async value(expression) {
		const beside = { script: BESIDE, args: [expression], sandbox: 'system', newSandbox: false };
		const r = await this.send('WebDriver:ExecuteAsyncScript', beside);
		this.errors.push(...r.errors);
		this.pid = r.pid;
		if (r.thrown !== undefined) throw new Error(r.thrown);
		return JSON.parse(r.json)[0];
	}

	// A frame is drawn, and what it shows can be looked at.
	frame() { return this.value('new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))'); }

	act(...actions) { return this.send('WebDriver:PerformActions', { actions }); }

	key(key) {
		const value = KEYS[key] || key;
		return this.act({ type: 'key', id: 'keys', actions: [{ type: 'keyDown', value }, { type: 'keyUp', value }] });
	}

	// As Chromium takes it: type, place, and what is to be known of buttons, wheel and modifiers (2: Ctrl).
	mouse(type, x, y, { deltaX, deltaY, modifiers } = {}) {
		if (type !== 'mouseWheel') {
			const actions = [{ type: 'pointerMove', duration: 0, x, y }];
			if (type === 'mousePressed') actions.push({ type: 'pointerDown', button: 0 });
			else if (type === 'mouseReleased') actions.push({ type: 'pointerUp', button: 0 });
			return this.act({ type: 'pointer', id: 'mouse', parameters: { pointerType: 'mouse' }, actions });
		}
		const pause = { type: 'pause' }, value = KEYS.Control;
		const wheel = { type: 'wheel', id: 'wheel', actions: [pause, { type: 'scroll', duration: 0, x, y, deltaX, deltaY }] };
		const keys = { type: 'key', id: 'keys', actions: [{ type: 'keyDown', value }, pause, { type: 'keyUp', value }] };
		return modifiers === 2 ? this.act(keys, wheel) : this.act(wheel);
	}

	async click(x, y) {
		await this.mouse('mouseMoved', x, y);
		await this.mouse('mousePressed', x, y);
		await this.mouse('mouseReleased', x, y);
	}

	async picture(file) {
		fs.writeFileSync(file, Buffer.from(await this.send('WebDriver:TakeScreenshot', { full: false }), 'base64'));
	}

	async pdf() { return Buffer.from(await this.send('WebDriver:Print', { background: true }), 'base64'); }

	async close() {
		clearTimeout(this.timer);
		// Nothing of it is needed any more, and to quit takes it seconds.
		const end = new Promise((r) => this.child.on('exit', r));
		this.child.kill('SIGKILL');
		await end;
		this.socket.destroy();
		process.off('exit', this.gone).off('SIGTERM', this.stop).off('SIGINT', this.stop);
		this.gone();
	}
}

module.exports = { Page };
