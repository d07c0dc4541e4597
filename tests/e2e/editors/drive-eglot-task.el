;;; A task in two commands: measure, then the change at the finding.  -*- lexical-binding: t -*-

(require 'eglot)
(require 'flymake)

(defun drive-finding ()
  "The place of the finding on data loading."
  (cl-some (lambda (one)
             (when (string-match-p "SKY101" (flymake-diagnostic-text one))
               (flymake-diagnostic-beg one)))
           (flymake-diagnostics)))

(defun drive-end ()
  "The last message of a run that has ended."
  (cl-find-if-not (lambda (line) (string-match-p "batch sizes follow" line)) (drive-messages "per iteration")))

(defun drive-task ()
  (run-hooks 'post-command-hook)
  (drive-wait "the server" 30 (lambda () (eglot-current-server)))
  (let ((before (drive-text)))
    (call-interactively #'skyline-profile)
    (drive-saw 'answer (drive-wait "the answer" 200 #'drive-end))
    (flymake-start)
    (goto-char (drive-wait "the finding" 60 #'drive-finding))
    (eglot-code-actions (point) (point) "quickfix" t)
    (drive-wait "the change" 20 (lambda () (not (equal (drive-text) before))))
    (drive-saw 'changed (drive-text))))

(drive #'drive-task)
